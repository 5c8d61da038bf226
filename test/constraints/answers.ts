/** Answers of a random model to random schemas, read by JSON.parse and by an independent validator. Usable outside bun's tests, too. */
import { GatedDeltaError } from "../../lib/errors.ts";
import type { LanguageModel } from "../../lib/model.ts";
import { Random } from "../support/random.ts";
import { randomSchema, validator } from "../support/random-schemas.ts";

/** The numbers of answers, by how they ended. */
export interface Tally {
  /** Answers that parse and validate. */
  valid: number;
  /** Answers that reached the maximum length within a value. */
  cut: number;
  /** Schemas that no value fits, which are refused. */
  impossible: number;
  tokens: number;
}

/** Options of {@link runSchemas}. */
export interface SchemasOptions {
  /** The first schema's number, which is its seed. */
  readonly first: number;
  readonly schemas: number;
  /** The number of answers to each schema. */
  readonly answers: number;
  /** How many schemas run at a time. */
  readonly lanes: number;
  readonly maxTokens: number;
}

/**
 * Lets a model answer schemas.
 *
 * @param progress called after each schema.
 * @throws for an answer that does not validate, with its schema and seed.
 */
export async function runSchemas(model: LanguageModel, options: SchemasOptions, progress: (done: number, tally: Tally) => void = () => {}): Promise<Tally> {
  const { first, schemas, answers, lanes, maxTokens } = options;
  const tally: Tally = { valid: 0, cut: 0, impossible: 0, tokens: 0 };
  let next = first;
  let done = 0;
  const lane = async (): Promise<void> => {
    for (let seed = next++; seed < first + schemas; seed = next++) {
      const schema = randomSchema(new Random(seed)) as object;
      await answersOf(model, schema, seed, answers, maxTokens, tally);
      progress(++done, tally);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return tally;
}

async function answersOf(model: LanguageModel, schema: object, seed: number, count: number, maxTokens: number, tally: Tally): Promise<void> {
  const validate = validator(schema);
  const random = new Random(seed + 1);
  using session = model.session().append(Array.from({ length: 4 }, () => 3 + random.below(400)));
  const ways = { temperature: random.pick([0.5, 1, 2]), drafts: random.below(3) === 0 };
  let found;
  try {
    found = await session.completeMany(count, { schema, seed, maxTokens, ...ways });
  } catch (error) {
    if (!(error instanceof GatedDeltaError) || error.received !== "one that none of finite length fits") throw new Error(`schema ${seed}: ${JSON.stringify(schema)}`, { cause: error });
    tally.impossible += count;
    return;
  }
  for (const [i, { text, end, tokens }] of found.entries()) {
    tally.tokens += tokens.length;
    if (end === "length") {
      tally.cut++;
      continue;
    }
    let valid = false;
    try {
      valid = validate(JSON.parse(text));
    } catch {
      // It is not JSON.
    }
    if (!valid) throw new Error(`schema ${seed}, seed ${seed + i}: ${JSON.stringify(schema)}\nthe answer ${JSON.stringify(text)}`);
    tally.valid++;
  }
}
