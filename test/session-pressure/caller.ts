/** A sequence of the caller's own, which runs while sessions do, keeps its memory for a while, and frees it. */
import { GatedDeltaError } from "../../lib/errors.ts";
import type { Sequence } from "../../lib/model.ts";
import type { Random } from "../support/random.ts";
import type { Situation } from "./situation.ts";

export async function runCaller(situation: Situation, name: string, random: Random): Promise<void> {
  await situation.watch.pause(random.below(20));
  for (let i = random.below(3); i >= 0; i--) {
    try {
      using sequence = situation.pressed.model.sequence();
      situation.held++;
      await hold(situation, name, random, sequence).finally(() => situation.held--);
      situation.note(name, "gives its sequence back");
    } catch (error) {
      if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory") throw error;
      situation.count("without room for the caller");
    }
    await situation.watch.pause(random.below(10));
  }
}

async function hold(situation: Situation, name: string, random: Random, sequence: Sequence): Promise<void> {
  const { pressed: { model, longest }, watch } = situation;
  const tokens: number[] = [];
  for (let i = random.below(4); i >= 0; i--) {
    const more = situation.anyTokens(random, 1 + random.below(6));
    if (tokens.length + more.length > longest) return;
    situation.note(name, `runs ${more.length} tokens after ${tokens.length}`);
    // The next run overwrites its results, so they are copied at once.
    const row = await situation.inTurn(async () => (await model.run([{ sequence, tokens: more }]))[0]!.logits.slice());
    tokens.push(...more);
    situation.claims.push({ who: name, kind: "logits", tokens: [...tokens], row });
    situation.count("runs of the caller");
    if (random.below(2) === 0) await watch.pause(random.below(12));
  }
}
