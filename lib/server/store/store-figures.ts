/** The figures of a server's use of its store: numbers that only grow. */
export interface StoreFigures {
  /** Conversations that were continued from the store. */
  restored: number;
  /** Tokens that did not have to be read because of that. */
  restoredTokens: number;
  /** Bytes read and written. */
  bytesRead: number;
  bytesWritten: number;
  /** Prefixes written. */
  written: number;
  /** Prefixes that were not written, because too many others waited or they were evicted from the cache before their turn. */
  skipped: number;
  /** Objects that were damaged, or signed with another secret. */
  refused: number;
  /** Failed or unanswered calls. */
  failures: number;
}

export function noFigures(): StoreFigures {
  return { restored: 0, restoredTokens: 0, bytesRead: 0, bytesWritten: 0, written: 0, skipped: 0, refused: 0, failures: 0 };
}
