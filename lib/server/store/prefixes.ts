/** The prefixes of conversations that servers with the same model, store and secret share. */
import type { LanguageModel } from "../../model/language-model.ts";
import { memoryOf } from "../../model/model-memory.ts";
import type { CacheAccess } from "../../model/session/prefix-cache.ts";
import type { Session } from "../../model/session/session.ts";
import { PrefixForm } from "./prefix-form.ts";
import { PrefixNames, scopeOf } from "./prefix-names.ts";
import { PrefixReader } from "./prefix-reader.ts";
import { PrefixWriter } from "./prefix-writer.ts";
import { Seal } from "./seal.ts";
import type { SessionStore } from "./session-store.ts";
import { noFigures } from "./store-figures.ts";
import type { StoreFigures } from "./store-figures.ts";
import { StoreLink } from "./store-link.ts";

/** The common part of reading and writing. */
export interface StoreContext {
  readonly model: LanguageModel;
  readonly cache: CacheAccess;
  readonly store: SessionStore;
  readonly form: PrefixForm;
  readonly seal: Seal;
  readonly link: StoreLink;
  readonly figures: StoreFigures;
  /** Resolves with true when the model's identity is known, or can't be known: then {@link names} rejects. */
  identified(): Promise<true>;
  /** The names of some tokens' prefixes. Waits for the model's identity. */
  names(tokens: Int32Array, salt: string): Promise<PrefixNames>;
}

/** The objects that {@link Prefixes} works with. */
export interface PrefixPlaces {
  readonly model: LanguageModel;
  readonly cache: CacheAccess;
  readonly store: SessionStore;
  readonly secret: Uint8Array;
}

export class Prefixes {
  readonly figures = noFigures();
  readonly #reader: PrefixReader;
  readonly #writer: PrefixWriter;

  constructor({ model, cache, store, secret }: PrefixPlaces) {
    const { figures } = this;
    const identity = memoryOf(model).identity.get("createHandler");
    // A rejection means a changed file: then each use of the store fails, and says so.
    const settled = identity.then(() => true as const, () => true as const);
    const identified = () => settled;
    const names = async (tokens: Int32Array, salt: string) => new PrefixNames(secret, scopeOf(model, await identity, salt), tokens);
    const context = { model, cache, store, form: new PrefixForm(model), seal: new Seal(secret), link: new StoreLink(figures), figures, identified, names };
    this.#reader = new PrefixReader(context);
    this.#writer = new PrefixWriter(context);
  }

  /** {@link PrefixReader.restore} */
  restore(session: Session, salt: string): Promise<number> {
    return this.#reader.restore(session, salt);
  }

  /** {@link PrefixWriter.keepPrompt} */
  keepPrompt(session: Session, salt: string): void {
    this.#writer.keepPrompt(session, salt);
  }

  /** {@link PrefixWriter.keepAnswer} */
  keepAnswer(session: Session, salt: string): void {
    this.#writer.keepAnswer(session, salt);
  }

  /** {@link PrefixWriter.flush} */
  flush(): Promise<void> {
    return this.#writer.flush();
  }
}
