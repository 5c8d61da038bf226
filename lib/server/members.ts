/** The members of bodies, by the arguments of a session's functions that they become. */

/** The members of every API. */
const common = { variables: "chat_template_kwargs" };

/**
 * The member of a body that an argument comes from: the argument's name with underscores, unless it has another one.
 *
 * @param names members with other names, by the argument; `[]` stands for a place in an array.
 */
export function membersOf(names: Readonly<Record<string, string>>): (argument: string) => string {
  const others = Object.entries({ ...common, ...names });
  return (path) => {
    const argument = path.replace(/^(\w+)\.(\d+)\b/, "$1[$2]"); // the place in an array of options
    const place = /\[\d+\]/.exec(argument)?.[0] ?? "";
    for (const [name, member] of others) {
      const begin = name.replace("[]", place);
      if (argument.startsWith(begin) && !/^\w/.test(argument.slice(begin.length))) return member.replace("[]", place) + argument.slice(begin.length);
    }
    const first = /^\w*/.exec(argument)![0];
    return first.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) + argument.slice(first.length);
  };
}
