/** Temporarily replaces methods of prototypes, to plant faults. */

/** A method as it is on a prototype. */
export type Method = (this: never, ...args: never[]) => unknown;

/** Replaces a method until the result is disposed of. */
export function replace(prototype: object, key: PropertyKey, make: (original: Method) => Method): Disposable {
  const original = Reflect.get(prototype, key) as Method;
  const own = Object.hasOwn(prototype, key);
  Object.defineProperty(prototype, key, { value: make(original), configurable: true, writable: true });
  return {
    [Symbol.dispose]() {
      if (own) Object.defineProperty(prototype, key, { value: original, configurable: true, writable: true });
      else Reflect.deleteProperty(prototype, key);
    },
  };
}
