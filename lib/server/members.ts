/** The members of bodies, by the arguments of a session's functions that they become. */

/** The names of members that are more than another spelling. */
interface Names {
  /** The schema of an answer's form. */
  readonly schema: string;
  /** In a tool, the schema of its arguments. */
  readonly parameters: string;
}

/** The member of a body that an argument comes from: an API's own name, or the argument's with underscores. */
export function membersOf({ schema, parameters }: Names): (argument: string) => string {
  return (argument) => {
    const first = /^\w*/.exec(argument)![0];
    const rest = argument.slice(first.length);
    if (first === "schema") return schema + rest;
    if (first === "variables") return `chat_template_kwargs${rest}`;
    if (first === "tools") return first + rest.replace(/^(\[\d+\]\.)parameters/, `$1${parameters}`);
    return first.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) + rest;
  };
}
