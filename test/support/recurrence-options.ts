/** The options of the recurrence, for tests that go through all of them. */
import type { Backend } from "./backends.ts";
import type { DeltaSpec } from "./cases.ts";

export type RecurrenceOptions = Pick<DeltaSpec, "gateForm" | "gateDims" | "betaForm" | "headMap" | "qkNorm">;

const betaForms = ["given", "sigmoid", "2-sigmoid"] as const;

/**
 * Every combination of them. On an emulated GPU each takes a tenth of a second; there, each combination of the other options has
 * one form of beta, in turn: one kernel resolves beta for all of them, and each pair of options still occurs.
 */
export function recurrenceOptions({ emulated }: Backend): RecurrenceOptions[] {
  const all: RecurrenceOptions[] = [];
  let turn = 0;
  for (const gateForm of ["decay", "log", "neg-log", "raw", "raw-ssm", "raw-bounded"] as const) {
    for (const gateDims of ["head", "key"] as const) {
      for (const headMap of ["block", "tiled"] as const) {
        for (const qkNorm of ["none", "l2", "l2-max", "rms"] as const) {
          const forms = emulated ? [betaForms[turn++ % betaForms.length]!] : betaForms;
          for (const betaForm of forms) all.push({ gateForm, gateDims, betaForm, headMap, qkNorm });
        }
      }
    }
  }
  return all;
}
