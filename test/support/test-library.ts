import { dlopen } from "bun:ffi";
import { libraryInfo } from "../../lib/index.ts";
import { testSymbols } from "../../lib/native/layout.ts";

const open = () => dlopen(libraryInfo().path, testSymbols).symbols;
let opened: ReturnType<typeof open> | undefined;

/** The functions that only a clone's library exports. */
export function testLibrary(): ReturnType<typeof open> {
  return (opened ??= open());
}
