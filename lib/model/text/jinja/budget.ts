/**
 * The work that a template may ask for. A chat template comes with a model's folder, and a few characters of Jinja can ask for any amount of
 * work; so each step and each character that it makes is counted, and rendering ends where there are too many.
 */

/**
 * How many nodes of the template are evaluated at most, besides one for each character of the messages; work on lists and
 * strings counts by their lengths. These are about half a second.
 */
const largestSteps = 1_000_000;

/** How many characters may be made, of all strings together, besides {@link charactersPerInput} for each of the messages. */
const largestCharacters = 8 * 2 ** 20;
const charactersPerInput = 64;

/** How many items a list may have. */
const longestList = 2 ** 20;

/** How long a template may be, in UTF-16 units. The largest published ones have some 40 thousand. */
export const largestTemplate = 256 * 2 ** 10;

/** How many whitespace characters may stand in a row: the time that preparing a template takes grows with the square. */
export const longestBlank = 1000;

/** The template asks for more than it gets. */
export class BudgetError extends Error {}

/** The rest of it that one rendering has. */
export class Budget {
  readonly #most: number;
  #steps: number;
  #characters: number;

  /** @param input characters of the messages, tools and values that the template is given. */
  constructor(input: number) {
    this.#most = largestSteps + input;
    this.#steps = this.#most;
    this.#characters = largestCharacters + charactersPerInput * input;
  }

  /** Counts work: a node that is evaluated, an item of a list. */
  step(count = 1): void {
    this.#steps -= count;
    if (this.#steps < 0) throw new BudgetError(`it takes more than ${this.#most} steps`);
  }

  /** Counts items of a list that is made or gone through; what is done with each counts by itself. */
  items(count: number): void {
    if (count > longestList) throw new BudgetError(`it makes a list of more than ${longestList} items`);
    this.step(1 + (count >>> 3));
  }

  /** Counts characters of a string, before it is made. */
  make(characters: number): void {
    this.step(characters >>> 12);
    this.#characters -= characters;
    if (!(this.#characters >= 0)) throw new BudgetError("its strings get too long");
  }

  /** Counts a search for a string in another: at worst each character of one is compared with each of the other. */
  search(hay: number, needle: number): void {
    this.step(Math.ceil((hay / 2 ** 12) * (1 + needle / 16)));
  }
}
