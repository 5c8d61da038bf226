/** Values by sequences of tokens: a tree whose edges are runs of tokens, so that shared beginnings are kept once. */

/** A place in the tree; what is in it is the tree's. */
export interface PrefixNode<Value> {
  /** The tokens on the way from the parent to here; none at the root only. */
  edge: Uint32Array;
  parent: PrefixNode<Value> | undefined;
  readonly children: Map<number, PrefixNode<Value>>;
  value: Value | undefined;
}

export class PrefixTree<Value> {
  readonly #root: PrefixNode<Value> = node(new Uint32Array(), undefined);

  /** The value of the longest sequence that these tokens begin with. */
  longestPrefix(tokens: Uint32Array): Value | undefined {
    let found: Value | undefined;
    this.#walk(tokens, (place) => void (found = place.value ?? found));
    return found;
  }

  /** The value of exactly these tokens. */
  find(tokens: Uint32Array): Value | undefined {
    let found: Value | undefined;
    this.#walk(tokens, (place, depth) => void (found = depth === tokens.length ? place.value : undefined));
    return found;
  }

  /** Puts a value where none is. `make` is told the place that {@link remove} wants. */
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

  /** Takes a value away, and what of the tree only it needed. */
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

  /** Visits every place on the way of these tokens, as far as it goes. */
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

/** How many tokens of an edge are those from `start` on. */
function commonLength(edge: Uint32Array, tokens: Uint32Array, start: number): number {
  const most = Math.min(edge.length, tokens.length - start);
  let same = 0;
  while (same < most && edge[same] === tokens[start + same]) same++;
  return same;
}

/** Makes a place after the first `length` tokens of the edge to `place`. */
function split<Value>(place: PrefixNode<Value>, length: number): PrefixNode<Value> {
  const parent = place.parent!;
  const middle = node(place.edge.slice(0, length), parent);
  parent.children.set(middle.edge[0]!, middle);
  place.edge = place.edge.slice(length);
  place.parent = middle;
  middle.children.set(place.edge[0]!, place);
  return middle;
}

/** Takes a place without a value and with one child out of the tree. The root stays. */
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
