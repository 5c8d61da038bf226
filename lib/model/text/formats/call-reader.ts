/** Takes the calls that a reader finds between the tags. */
export interface CallSink {
  /** How many of the last characters the reader has taken ahead of those that it has read. It is 0 at every new character. */
  ahead: number;
  /** A call's name is known. */
  begin(name: string): void;
  /** The next characters of the call's arguments as JSON. */
  write(json: string): void;
  /** The call's arguments are complete. Returns whether they could be read; if not, the reader is over. */
  complete(): boolean;
  /** The calls are over, and so is the reader. The characters ahead come after them. */
  leave(): void;
  /** The text since the last call can't be read. The reader is over; the characters ahead are read again. */
  fail(reason: string): void;
  /** The begin tag was only mentioned: no call follows. The reader is over; the characters ahead are read again. */
  mention(): void;
}

/** The reason for {@link CallSink.fail} if the end tag directly follows the begin tag. */
export const noCall = "there is no call between the tags";

/** Reads the calls between two tags, character by character. */
export interface CallReader {
  next(character: string): void;
  /** No more characters come. */
  end(): void;
}
