// The package's own declaration is for a module with another name.
declare module "@mixmark-io/domino" {
  /** An HTML document without a browser. */
  export function createDocument(html?: string): unknown;
}
