/** The model that a command names. */
import { existsSync } from "node:fs";
import { tinyModel } from "../model/tiny-model.ts";

/** The path of a model. "tiny" is the package's own, unless there is a folder of that name. */
export function modelPath(given: string): string {
  return given === "tiny" && !existsSync(given) ? tinyModel : given;
}
