/** Values by sequences of tokens: a radix tree, whose edges are runs of tokens, so that shared prefixes are stored once. */

/** A node. Only the tree changes it. */
export interface PrefixNode<Value> {
  /** The tokens between the parent and this node; empty at the root only. */
  edge: Uint32Array;
  parent: PrefixNode<Value> | undefined;
  readonly children: Map<number, PrefixNode<Value>>;
  value: Value | undefined;
}

export class PrefixTree<Value> {
  readonly #root: PrefixNode<Value> = node(new Uint32Array(), undefined);

  /** Whether the tree holds no value. */
  get empty(): boolean {
    return this.#root.value === undefined && this.#root.children.size === 0;
  }

  /** The value of the longest sequence that is a prefix of these tokens. */
  longestPrefix(tokens: Uint32Array): Value | undefined {
    let found: Value | undefined;
    this.#walk(tokens, (place) => void (found = place.value ?? found));
    return found;
  }

  /** The values of all sequences that are prefixes of these tokens, the shortest first. */
  prefixes(tokens: Uint32Array): Value[] {
    const found: Value[] = [];
    this.#walk(tokens, ({ value }) => void (value !== undefined && found.push(value)));
    return found;
  }

  /** The value of exactly these tokens. */
  find(tokens: Uint32Array): Value | undefined {
    let found: Value | undefined;
    this.#walk(tokens, (place, depth) => void (found = depth === tokens.length ? place.value : undefined));
    return found;
  }

  /** Adds a value; there must be none at these tokens. `make` gets the node, for {@link remove}. */
  insert(tokens: Uint32Array, make: (place: PrefixNode<Value>) => Value): Value {
    let place = this.#root;
    let depth = 0;
    while (depth < tokens.length) {
      const child = place.children.get(tokens[depth]!);
      if (child === undefined) {
        const leaf = node<Value>(tokens.slice(depth), place);
        place.children.set(tokens[depth]!, leaf);
        place = leaf;
        break;
      }
      const same = commonLength(child.edge, tokens, depth);
      place = same === child.edge.length ? child : split(child, same);
      depth += same;
    }
    return (place.value = make(place));
  }

  /** Removes the value of a node, and the nodes that only this value needed. */
  remove(place: PrefixNode<Value>): void {
    place.value = undefined;
    const { parent, children } = place;
    if (parent === undefined) return;
    if (children.size === 0) {
      parent.children.delete(place.edge[0]!);
      if (parent.value === undefined && parent.children.size === 1) join(parent);
    } else if (children.size === 1) {
      join(place);
    }
  }

  /** Visits the nodes of all prefixes of these tokens, the shortest first. */
  #walk(tokens: Uint32Array, visit: (place: PrefixNode<Value>, depth: number) => void): void {
    let place = this.#root;
    let depth = 0;
    for (;;) {
      visit(place, depth);
      const child = depth < tokens.length ? place.children.get(tokens[depth]!) : undefined;
      if (child === undefined || commonLength(child.edge, tokens, depth) < child.edge.length) return;
      depth += child.edge.length;
      place = child;
    }
  }
}

function node<Value>(edge: Uint32Array, parent: PrefixNode<Value> | undefined): PrefixNode<Value> {
  return { edge, parent, children: new Map(), value: undefined };
}

/** The number of tokens at the beginning of an edge that equal those from `start` on. */
function commonLength(edge: Uint32Array, tokens: Uint32Array, start: number): number {
  const most = Math.min(edge.length, tokens.length - start);
  let same = 0;
  while (same < most && edge[same] === tokens[start + same]) same++;
  return same;
}

/** Makes a node after the first `length` tokens of the edge to `place`. */
function split<Value>(place: PrefixNode<Value>, length: number): PrefixNode<Value> {
  const parent = place.parent!;
  const middle = node(place.edge.slice(0, length), parent);
  parent.children.set(middle.edge[0]!, middle);
  place.edge = place.edge.slice(length);
  place.parent = middle;
  middle.children.set(place.edge[0]!, place);
  return middle;
}

/** Removes a node that has one child and no value. The root stays. */
function join<Value>(place: PrefixNode<Value>): void {
  const { parent } = place;
  if (parent === undefined) return;
  const child = place.children.values().next().value!;
  const edge = new Uint32Array(place.edge.length + child.edge.length);
  edge.set(place.edge);
  edge.set(child.edge, place.edge.length);
  child.edge = edge;
  child.parent = parent;
  parent.children.set(edge[0]!, child);
}
