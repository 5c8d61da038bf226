/**
 * Limits the work of a template. A chat template comes with a model's folder, and a few characters of Jinja can take any
 * amount of work. So every step and every produced character is counted, and rendering ends when there are too many.
 */

/**
 * The most nodes of the template that are evaluated, in addition to one for each character of the messages; work on lists
 * and strings counts by length. They take about half a second.
 */
const largestSteps = 1_000_000;

/** The most characters of all produced strings, in addition to {@link charactersPerInput} for each character of the messages. */
const largestCharacters = 8 * 2 ** 20;
const charactersPerInput = 64;

/** The most items of a list. */
const longestList = 2 ** 20;

/** The longest template, in UTF-16 units. The largest published ones have about 40 thousand. */
export const largestTemplate = 256 * 2 ** 10;

/** The longest run of whitespace: the time to prepare a template grows with its square. */
export const longestBlank = 1000;

/** The error for a template that exceeds its work limit. */
export class BudgetError extends Error {}

/** The remaining work of one rendering. */
export class Budget {
  readonly #most: number;
  #steps: number;
  #characters: number;

  /** @param input the number of characters of the messages, tools and variables. */
  constructor(input: number) {
    this.#most = largestSteps + input;
    this.#steps = this.#most;
    this.#characters = largestCharacters + charactersPerInput * input;
  }

  /** Counts work, such as an evaluated node or an item of a list. */
  step(count = 1): void {
    this.#steps -= count;
    if (this.#steps < 0) throw new BudgetError(`it takes more than ${this.#most} steps`);
  }

  /** Counts items of a list that is made or iterated over; work on each item counts separately. */
  items(count: number): void {
    if (count > longestList) throw new BudgetError(`it makes a list of more than ${longestList} items`);
    this.step(1 + (count >>> 3));
  }

  /** Counts the characters of a string before it is made. */
  make(characters: number): void {
    this.step(characters >>> 12);
    this.#characters -= characters;
    if (!(this.#characters >= 0)) throw new BudgetError("its strings get too long");
  }

  /** Counts a search for a string in another by its worst case, in which all pairs of characters are compared. */
  search(hay: number, needle: number): void {
    this.step(Math.ceil((hay / 2 ** 12) * (1 + needle / 16)));
  }
}
