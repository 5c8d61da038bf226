/** Rules about the language itself: parts of C++ that Metal lacks, and this project's own rules. */
import { allDeclarations } from "../frontend/unit.ts";
import { definitionsOf, eachToken, functionsOf, type Rule } from "./rule.ts";

const forbiddenWords: Readonly<Record<string, string>> = {
  double: "Metal has no double",
  goto: "Metal has no goto",
  dynamic_cast: "Metal has no dynamic_cast",
  typeid: "Metal has no type identification",
  new: "Metal has no new",
  delete: "Metal has no delete",
  try: "Metal has no exceptions",
  catch: "Metal has no exceptions",
  throw: "Metal has no exceptions",
  virtual: "Metal has no virtual functions",
  thread_local: "Metal has no thread_local",
  register: "Metal has no register",
  asm: "Metal has no inline assembly",
  __asm__: "Metal has no inline assembly",
  std: "Metal has no C++ standard library",
  co_await: "Metal has no coroutines",
};

const forbidden: Rule = {
  name: "language",
  source: "MSL 1.5.4, 2.1",
  check(unit, report) {
    const { tokens } = unit;
    eachToken(tokens, { begin: 0, end: tokens.list.length }, (i) => {
      const token = tokens.at(i);
      if (token.kind !== "identifier") return;
      const why = forbiddenWords[token.text];
      const deleted = token.text === "delete" && tokens.is(i - 1, "=");
      if (why !== undefined && Object.hasOwn(forbiddenWords, token.text) && !deleted) report(token, why);
      if (token.text === "long" && (tokens.text(i + 1) === "long" || tokens.text(i + 1) === "double"))
        report(token, `Metal has no long ${tokens.text(i + 1)}`);
      if (token.text === "noexcept" && tokens.is(i + 1, "(")) report(token, "Metal has no noexcept operator");
    });
    for (const d of allDeclarations(unit.declarations)) {
      if (d.kind === "struct" && d.bases !== null)
        report(d.place, `${d.name} is a derived class, which Metal does not have`);
    }
  },
};

const modern: Rule = {
  name: "cxx17",
  source: "MSL 1.5: C++14 before Metal 4",
  check(unit, report) {
    const { tokens } = unit;
    for (const f of definitionsOf(unit)) {
      eachToken(tokens, f.body, (i) => {
        const text = tokens.text(i);
        if (text === "if" && tokens.text(i + 1) === "constexpr") report(tokens.at(i), "if constexpr is C++17");
        if (text === "auto" && (tokens.is(i + 1, "[") || (/^&&?$/.test(tokens.text(i + 1)) && tokens.is(i + 2, "["))))
          report(tokens.at(i), "a structured binding is C++17");
        if ((text === "if" || text === "switch") && tokens.is(i + 1, "(")) {
          const end = tokens.close(i + 1);
          for (let k = i + 2; k < end; k += 1) {
            if (tokens.is(k, "(") || tokens.is(k, "{")) k = tokens.close(k) - 1;
            else if (tokens.is(k, ";")) report(tokens.at(i), `${text} with an initialiser is C++17`);
          }
        }
        if (text === "..." && /^[+\-*/&|]{1,2}$|^,$/.test(tokens.text(i - 1)) && tokens.is(i + 1, ")"))
          report(tokens.at(i), "a fold expression is C++17");
      });
    }
    for (const d of unit.declarations) {
      if (d.kind === "variable" && /\binline\b/.test(tokens.slice(d.type)))
        report(d.place, `inline variable ${d.name} is C++17`);
    }
    for (const f of functionsOf(unit)) {
      for (const p of f.template ?? [])
        if (/^auto\b/.test(p.type)) report(p.place, `template parameter ${p.name} of type auto is C++17`);
    }
  },
};

const lambdas: Rule = {
  name: "function-pointer",
  source: "MSL 2.15: function pointers need visible functions",
  check(unit, report) {
    for (const f of functionsOf(unit)) {
      for (const p of f.parameters)
        if (/\(\s*\*/.test(p.type)) report(p.place, `parameter ${p.name} of ${f.name} is a pointer to a function`);
    }
  },
};

/** Words of Metal that are not types or functions of C++, and so could be mistaken for free names. */
const reserved = new Set(
  (
    "kernel vertex fragment compute device constant thread threadgroup threadgroup_imageblock ray_data object_data sampler texture1d texture1d_array texture2d " +
    "texture2d_array texture3d texturecube texturecube_array texture2d_ms texture_buffer depth2d depth2d_array depthcube imageblock mesh metal half bfloat uchar " +
    "ushort uint ulong size_t ptrdiff_t vec matrix atomic_int atomic_uint atomic_bool atomic_float simdgroup_matrix access address coord filter mip_filter " +
    "compare_func visible stitchable intersection patch_control_point primitive_acceleration_structure coherent as_type"
  ).split(" "),
);

const keywords: Rule = {
  name: "reserved-name",
  source: "MSL: keywords and built-in types",
  check(unit, report) {
    const { tokens } = unit;
    const check = (name: string, place: { file: string; line: number }): void => {
      if (reserved.has(name)) report(place, `${name} is a name of Metal's own`);
    };
    for (const d of allDeclarations(unit.declarations))
      if (d.kind === "variable" || d.kind === "struct" || d.kind === "alias" || d.kind === "function")
        check(d.name, d.place);
    for (const f of functionsOf(unit)) for (const p of f.parameters) check(p.name, p.place);
    for (const f of definitionsOf(unit)) {
      eachToken(tokens, f.body, (i) => {
        const declared =
          tokens.isWord(i) &&
          /^[=;,[]$/.test(tokens.text(i + 1)) &&
          (tokens.isWord(i - 1) || /^[*&>]$/.test(tokens.text(i - 1)));
        if (declared && !/^(return|else|case|thread|device|constant|threadgroup)$/.test(tokens.text(i - 1)))
          check(tokens.text(i), tokens.at(i));
      });
    }
  },
};

const suffix: Rule = {
  name: "literal-suffix",
  source: "design: a literal says its type",
  check(unit, report) {
    for (const token of unit.tokens.list) {
      if (token.kind !== "number" || /^0[xX](?!.*[pP])/.test(token.text)) continue;
      if (/[.eEpP]/.test(token.text) && !/[fFhH]$|bf$|BF$/.test(token.text))
        report(token, `${token.text} has no suffix: write ${token.text}f or ${token.text}h`);
    }
  },
};

const narrowCounter: Rule = {
  name: "narrow-counter",
  source: "a 16-bit counter never reaches a larger bound",
  check(unit, report) {
    const { tokens } = unit;
    for (const f of definitionsOf(unit)) {
      eachToken(tokens, f.body, (i) => {
        if (tokens.text(i) !== "for" || !tokens.is(i + 1, "(")) return;
        const type = tokens.text(i + 2);
        const name = tokens.text(i + 3);
        if (!/^(short|ushort|char|uchar|u?int(8|16)_t)$/.test(type) || !tokens.is(i + 4, "=")) return;
        let k = i + 4;
        while (!tokens.is(k, ";")) k += 1;
        if (tokens.text(k + 1) !== name) return;
        const bound: string[] = [];
        for (let b = k + 3; !tokens.is(b, ";"); b += 1) bound.push(tokens.text(b));
        // Literals, constants in capitals and template parameters are known to be small in these uses.
        const known = bound.every(
          (w) => !/^[A-Za-z_]/.test(w) || /^[A-Z][A-Z0-9_]*$/.test(w) || (f.template ?? []).some((p) => p.name === w),
        );
        const sameType =
          bound.length === 1 && f.parameters.some((p) => p.name === bound[0] && p.type.replace(/const /, "") === type);
        if (!known && !sameType)
          report(tokens.at(i), `counter ${name} is a ${type} and its bound, ${bound.join(" ")}, may be larger`);
      });
    }
  },
};

const families: readonly [RegExp, number, string][] = [
  [/^simd_shuffle_and_fill_(up|down)$/, 8, "an M2 or later"],
  [/^quad_shuffle_and_fill_(up|down)$/, 8, "an M2 or later"],
  [/^(atomic_ulong|atomic_(min|max)_explicit)$/, 9, "an M3 or later"],
  [/^(tensor|matmul2d|tensor_ops|tensor_handle)$/, 10, "Metal 4 hardware"],
];

const family: Rule = {
  name: "gpu-family",
  source: "Metal Feature Set Tables",
  check(unit, report, options) {
    for (const token of unit.tokens.list) {
      if (token.kind !== "identifier") continue;
      for (const [pattern, needed, what] of families)
        if (pattern.test(token.text) && options.appleFamily < needed) report(token, `${token.text} needs ${what}`);
    }
  },
};

const memoryOrder: Rule = {
  name: "memory-order",
  source: "MSL 6.15.1",
  check(unit, report) {
    const { tokens } = unit;
    for (let i = 0; i < tokens.list.length; i += 1) {
      const text = tokens.text(i);
      if (/^memory_order_(acquire|release|acq_rel|consume)$/.test(text))
        report(tokens.at(i), `${text}: Metal has memory_order_relaxed, and memory_order_seq_cst for fences`);
      if (/^atomic_\w+_explicit$/.test(text) && tokens.is(i + 1, "(")) {
        const end = tokens.close(i + 1);
        for (let k = i + 2; k < end; k += 1)
          if (tokens.text(k) === "memory_order_seq_cst")
            report(tokens.at(k), `${text} takes memory_order_relaxed only`);
      }
      if (/^atomic_(load|store|exchange|fetch_[a-z]+|compare_exchange_weak)$/.test(text) && tokens.is(i + 1, "("))
        report(tokens.at(i), `${text} is not on macOS: use ${text}_explicit`);
    }
  },
};

const coherence: Rule = {
  name: "coherent",
  source: "MSL 4.8",
  check(unit, report) {
    const { tokens } = unit;
    const uses = (begin: number, end: number, word: string): boolean => {
      for (let i = begin; i < end; i += 1) if (tokens.text(i) === word) return true;
      return false;
    };
    for (const f of definitionsOf(unit)) {
      if (
        f.stage !== "kernel" ||
        !uses(f.body.begin, f.body.end, "atomic_thread_fence") ||
        !uses(f.body.begin, f.body.end, "mem_device")
      )
        continue;
      if (
        uses(f.body.begin, f.body.end, "thread_scope_threadgroup") ||
        uses(f.body.begin, f.body.end, "thread_scope_simdgroup")
      )
        continue;
      if (!uses(f.parameterRange.begin, f.parameterRange.end, "coherent")) {
        report(
          f.place,
          `kernel ${f.name} fences device memory between threadgroups, but none of its arguments is coherent(device)`,
        );
      }
    }
  },
};

const nonFinite: Rule = {
  name: "non-finite",
  source: "MSL 1.6.3: fast math assumes neither NaN nor infinity",
  check(unit, report, options) {
    const safe = unit.tokens.list.some(
      (t) => t.kind === "pragma" && /METAL\s+fp\s+math_mode\s*\(\s*safe\s*\)/.test(t.text),
    );
    if (options.mathMode === "safe" || safe) return;
    for (const token of unit.tokens.list) {
      if (token.kind === "identifier" && /^(INFINITY|NAN|HUGE_VALF|isnan|isinf|isfinite)$/.test(token.text))
        report(token, `${token.text} means nothing under ${options.mathMode} math`);
    }
  },
};

const contraction: Rule = {
  name: "contraction",
  source: "design: equal bits need every fused multiply-add written",
  check(unit, report) {
    const first = definitionsOf(unit)[0];
    if (first === undefined) return;
    const off = unit.tokens.list.some(
      (t, i) =>
        t.kind === "pragma" &&
        i < first.range.begin &&
        /METAL\s+fp\s+contract\s*\(\s*off\s*\)|STDC\s+FP_CONTRACT\s+OFF/.test(t.text),
    );
    if (!off) report(first.place, "no #pragma METAL fp contract(off) before the first function");
  },
};

export const languageRules: readonly Rule[] = [
  forbidden,
  modern,
  lambdas,
  keywords,
  suffix,
  narrowCounter,
  family,
  memoryOrder,
  coherence,
  nonFinite,
  contraction,
];
