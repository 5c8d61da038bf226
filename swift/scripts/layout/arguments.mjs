// The arguments of an op: the role of each field of its struct in the public function.
import { valueNamed } from "./options.mjs";

/** `a_log` as `aLog`. */
export function publicName(field) {
  return field.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
}

const tags = ["as", "optional", "is", "default", "from", "above", "boolean", "bound", "in", "of", "elementwise"];

/** The tags of a field's annotation, by name. */
export function readNote(note) {
  const read = {};
  for (const part of note.split(/\s*@/)) {
    const [tag, ...rest] = part.trim().split(" ");
    if (!tags.includes(tag) || tag in read) throw new Error(`cannot read the annotation "@${note}"`);
    read[tag] = rest.length === 0 ? true : rest.join(" ");
  }
  return read;
}

/** The arguments of an op in the order of its struct; members of one group follow one another. */
export function argumentsOf({ fields }, options) {
  const found = [];
  for (const field of fields) {
    if (field.name === "size" || field.name === "version" || field.name === "reserved") continue;
    const argument = argumentOf(field, options);
    const [group, member] = argument.name.split(".");
    if (member === undefined) {
      found.push(argument);
      continue;
    }
    // The annotation says whether the group may be left out; if the group is there, every member is.
    const last = found.at(-1);
    if (last?.name === group) last.members.push({ ...argument, optional: false });
    else {
      const { optional, bound } = argument;
      found.push({ name: group, kind: "group", optional, bound, members: [{ ...argument, optional: false }] });
    }
  }
  const names = found.map(({ name }) => name);
  if (new Set(names).size !== names.length) throw new Error(`arguments of one name: ${names.join(", ")}`);
  const bound = found.filter((argument) => argument.bound !== undefined);
  if (bound.length === 0) return found;
  // `states` is read after everything else, and before the arguments that it replaces.
  const states = { name: "states", kind: "states", optional: true, kinds: kindsOf(bound), drafts: bound.some((one) => one.bound === "cuSeqlens") };
  return [...found.filter((argument) => argument.bound === undefined), states, ...bound];
}

/** The kinds of state that an op reads and writes. */
function kindsOf(bound) {
  return [["state", "state"], ["convState", "conv"]].filter(([name]) => bound.some((one) => one.bound === name)).map(([, kind]) => kind);
}

function argumentOf({ name: field, offset, type, note }, options) {
  const name = note.as ?? publicName(field);
  const optional = note.optional === true || note.default !== undefined;
  const common = { name, field, at: offset / 4, optional, bound: note.bound };
  if (type === "gd_tensor") return { ...common, kind: "tensor", dtype: note.of };
  if (type === "gd_index") return { ...common, kind: "indices" };
  if (type === "f32") {
    const { from: least, above, default: byDefault } = note;
    return { ...common, kind: "number", least, above, default: byDefault === undefined ? undefined : Number(byDefault) };
  }
  if (type !== "u32" && type !== "i32") throw new Error(`${field}: no argument is of type ${type}`);
  if (note.boolean === true) return { ...common, kind: "boolean" };
  if (note.is === undefined) {
    const least = Number(note.from ?? (type === "i32" ? -(2 ** 31) : 0));
    return { ...common, kind: "integer", least, default: note.default === undefined ? undefined : Number(note.default) };
  }
  const option = options.find((one) => one.name === note.is);
  if (option === undefined) throw new Error(`${field}: no option ${note.is}`);
  // No value is 0, which stands for an option that was left out.
  const byDefault = note.default === undefined ? (optional ? { value: 0 } : undefined) : valueNamed(option, note.default);
  return { ...common, kind: "option", option, default: byDefault };
}
