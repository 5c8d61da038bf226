/** The parsed declarations of a translation unit. */
import type { Attribute, Range } from "./cursor.ts";
import type { Parameter } from "./parameters.ts";
import type { Place } from "./tokens.ts";

export type Scope = { readonly path: readonly string[]; readonly inClass: boolean };

export type FunctionDeclaration = {
  readonly kind: "function";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  /** From its template header or first specifier to the end of its body or the semicolon. */
  readonly range: Range;
  readonly template: readonly Parameter[] | null;
  /** Specifiers and return type. */
  readonly specifiers: Range;
  readonly parameters: readonly Parameter[];
  readonly parameterRange: Range;
  /** The tokens between ")" and the body: cv-qualifiers, address spaces, a constructor's initialisers. */
  readonly trailing: Range;
  /** Inside the braces; null for a declaration without a body. */
  readonly body: Range | null;
  readonly attributes: readonly Attribute[];
  /** The keyword or attribute that makes it an entry point. */
  readonly stage: "kernel" | "vertex" | "fragment" | null;
};

export type VariableDeclaration = {
  readonly kind: "variable";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
  readonly type: Range;
  /** Array bounds: "[4]", or "". */
  readonly suffix: Range;
  readonly initializer: Range | null;
  readonly attributes: readonly Attribute[];
  readonly template: boolean;
};

export type StructDeclaration = {
  readonly kind: "struct";
  readonly name: string;
  readonly keyword: "struct" | "class" | "union";
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
  readonly template: readonly Parameter[] | null;
  readonly bases: Range | null;
  readonly members: readonly Declaration[];
  readonly body: Range;
};

export type AliasDeclaration = {
  readonly kind: "alias";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
};

/** template [[host_name("x")]] kernel void f<int>(...);  or with decltype or a typedef for its type. */
export type Instantiation = {
  readonly kind: "instantiation";
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
  readonly hostName: string | null;
  readonly kernel: boolean;
  /** The function's name as written, without its arguments. */
  readonly name: string;
  /** "<float, 4>" as written. */
  readonly arguments: string;
};

export type OtherDeclaration = {
  readonly kind: "using" | "enum" | "assertion" | "pragma";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
};

export type Declaration =
  FunctionDeclaration | VariableDeclaration | StructDeclaration | AliasDeclaration | Instantiation | OtherDeclaration;
