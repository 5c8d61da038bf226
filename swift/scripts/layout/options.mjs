// The options of the header: their values and names.

/** `@option Name: text`, whose values follow. */
export function optionOf(note) {
  const match = /^option (\w+): (.+)$/.exec(note);
  if (!match) throw new Error(`cannot read the annotation "${note}"`);
  return { name: match[1], of: undefined, text: match[2], values: [] };
}

/** `@choice Name of Option: a b: text`. */
export function choiceOf(note, options) {
  const match = /^choice (\w+) of (\w+): ([^:]+): (.+)$/.exec(note);
  if (!match) throw new Error(`cannot read the annotation "${note}"`);
  const of = options.find(({ name }) => name === match[2]);
  if (of === undefined) throw new Error(`${match[1]}: no option ${match[2]}`);
  const values = match[3].split(" ").map((name) => valueNamed(of, name));
  return { name: match[1], of: of.name, text: match[4], values };
}

/** `@name: text` or `@name` of a constant, which belongs to the last option. What follows as `@block …` describes a weight format. */
export function valueOf(constant, value, note, options) {
  const [head, ...tags] = note.split(" @");
  const match = /^([\w-]+)(?:: (.+))?$/.exec(head);
  const option = options.at(-1);
  if (!match || option === undefined || option.of !== undefined) throw new Error(`${constant}: cannot read "@${note}"`);
  if (option.values.some(({ name }) => name === match[1])) throw new Error(`${option.name}: ${match[1]} twice`);
  option.values.push({ name: match[1], constant, value, text: match[2], ...(tags.length > 0 && { layout: layoutOf(constant, tags) }) });
}

/** The tags of a weight format: `block 64 32 u32`, `scales float`, `biases float`, `unpack Affine 4`. */
function layoutOf(constant, tags) {
  const read = Object.fromEntries(tags.map((tag) => [tag.split(" ")[0], tag.split(" ").slice(1)]));
  const { block, scales, biases, unpack, ...others } = read;
  const [elements, bytes] = (block ?? []).slice(0, 2).map(Number);
  const fits = elements > 0 && bytes > 0 && block.length === 3 && (unpack === undefined || (unpack.length === 2 && Number(unpack[1]) > 0));
  const known = Object.keys(others).length === 0 && Object.keys(read).length === tags.length;
  if (!fits || !known || scales?.length === 0 || biases?.length === 0) throw new Error(`${constant}: cannot read "@${tags.join(" @")}"`);
  return { elements, bytes, dtype: block[2], scales: scales?.[0], biases: biases?.[0], unpack: unpack && { family: unpack[0], bits: Number(unpack[1]) } };
}

/** The value of an option by its public name. */
export function valueNamed(option, name) {
  const value = option.values.find((one) => one.name === name);
  if (value === undefined) throw new Error(`${option.name} has no value ${name}`);
  return value;
}
