/** The list of models, in a form with the members of OpenAI's list and Anthropic's. */
import { longestOf } from "../model/session/capacity.ts";
import type { Served } from "./api.ts";
import { Problem } from "./problem.ts";

function described({ name, since, model }: Served): object {
  return {
    id: name,
    object: "model",
    created: since,
    owned_by: "gated-delta",
    max_model_len: longestOf(model),
    type: "model",
    display_name: name,
    created_at: new Date(1000 * since).toISOString(),
  };
}

/** All models: the one that is served. */
export function modelList(served: Served): object {
  return { object: "list", data: [described(served)], has_more: false, first_id: served.name, last_id: served.name };
}

/**
 * One model.
 *
 * @param name as it is in an address.
 * @throws {Problem} for another model's name.
 */
export function modelNamed(served: Served, name: string): object {
  if (name === served.name || decoded(name) === served.name) return described(served);
  throw new Problem("not-found", `there is no model ${JSON.stringify(name)} here, but ${JSON.stringify(served.name)}`, { member: "model" });
}

/** A name without URL escapes, which can write one name in several ways. */
function decoded(name: string): string | undefined {
  try {
    return decodeURIComponent(name);
  } catch {
    return undefined; // a percent sign that begins no escape
  }
}
