import type { Tags } from "./answer-format.ts";

/** Begins a call; `NAME>` follows. */
export const functionTag = "<function=";
export const functionEnd = "</function>";
/** Begins an argument; `KEY>` follows. */
export const parameterTag = "<parameter=";
export const parameterEnd = "</parameter>";

/** The longest name of a function or argument. */
export const longestName = 256;

/** All tags of calls. */
export const xmlTags = ({ begin, end }: Tags): string[] => [functionTag, functionEnd, parameterTag, parameterEnd, begin, end];
