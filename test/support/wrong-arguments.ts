/** Ways in which the arguments of each op can be wrong, one at a time. */
import type { Device } from "../../lib/index.ts";
import type { OpName } from "./arguments.ts";
import { wrongConvolutions } from "./wrong-arguments/convolutions.ts";
import { wrongExperts } from "./wrong-arguments/experts.ts";
import type { Wrong } from "./wrong-arguments/kit.ts";
import { wrongRecurrences } from "./wrong-arguments/recurrences.ts";
import { wrongRows } from "./wrong-arguments/rows.ts";

export type { Wrong } from "./wrong-arguments/kit.ts";

/** Each change of an op's sound arguments that it must refuse. */
export function wrongArguments(device: Device): { readonly [Name in OpName]: readonly Wrong[] } {
  return { ...wrongRecurrences(device), ...wrongConvolutions(device), ...wrongRows(device), ...wrongExperts(device) };
}
