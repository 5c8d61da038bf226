import type { Tags } from "./answer-format.ts";

/** Begins a call; `NAME>` follows. */
export const functionTag = "<function=";
export const functionEnd = "</function>";
/** Begins an argument; `KEY>` follows. */
export const parameterTag = "<parameter=";
export const parameterEnd = "</parameter>";

/** A longer name of a function or an argument is none. */
export const longestName = 256;

/** All tags of calls. */
export const xmlTags = ({ begin, end }: Tags): string[] => [functionTag, functionEnd, parameterTag, parameterEnd, begin, end];
