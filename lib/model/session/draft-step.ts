/** Placeholder until drafts are verified without a fork. */
export class DraftStep {}
