/** Saves sessions, and makes sessions from saved ones. */
import { memoryOf } from "../model-memory.ts";
import { viewsOf } from "../snapshot.ts";
import type { Conversation } from "./conversation.ts";
import { writeSession } from "./session-file.ts";
import type { SessionToWrite, StoredSession } from "./session-file.ts";
import { Stored } from "./stored.ts";
import { TokenRanges } from "./token-ranges.ts";

/** Writes the current contents of a conversation that is not in a step; its next step waits. */
export async function saveConversation(op: string, path: string, of: Conversation): Promise<void> {
  of.memory.settle();
  if (of.memory.taken === undefined) return write(op, path, of);
  // The conversation's memory was taken. A fork reads the tokens again, so that the session itself can continue meanwhile.
  const copy = of.fork();
  try {
    await copy.readAgain(op);
    await write(op, path, copy);
  } finally {
    copy.drop();
  }
}

function write(op: string, path: string, of: Conversation): Promise<void> {
  const contents = contentsOf(of);
  return of.whileSaving(async () => {
    await memoryOf(of.model).idle(); // guesses may have been accepted just now
    await writeSession(op, path, of.model, contents);
  });
}

function contentsOf(of: Conversation): SessionToWrite {
  const { tokens, messageEnds, generated, dialogue, cutAnswer, textEnd, logits, recomputable, memory: { readable, stored } } = of;
  return {
    tokens: Int32Array.from(tokens),
    messageEnds: Int32Array.from(messageEnds),
    generated: Int32Array.from(generated.bounds),
    dialogue: dialogue === undefined ? undefined : { dialogue, cutAnswer },
    textEnd,
    logits: logits?.slice(),
    read: readable === undefined ? stored?.snapshot : viewsOf(readable),
    recomputable,
  };
}

/** Gives an empty conversation a file's contents. */
export function restore(of: Conversation, { tokens, messageEnds, generated, dialogue, textEnd, logits, read, recomputable }: StoredSession): void {
  for (const token of tokens) of.tokens.push(token);
  for (const end of messageEnds) of.messageEnds.push(end);
  of.generated = new TokenRanges([...generated]);
  of.dialogue = dialogue?.dialogue;
  of.cutAnswer = dialogue?.cutAnswer;
  of.textEnd = textEnd;
  of.logits = logits;
  of.recomputable = recomputable || read === undefined;
  of.memory.stored = read === undefined ? undefined : new Stored(read);
}
