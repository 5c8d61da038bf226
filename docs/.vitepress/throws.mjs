// TypeDoc keeps the class of "@throws {FileError} where …" apart, and the Markdown theme leaves it out. Here it becomes the sentence's
// first words, as a link to the class.
import { Converter, ReflectionKind } from "typedoc";

export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    const classes = new Map(project.getReflectionsByKind(ReflectionKind.Class).map((one) => [one.name, one]));
    for (const { comment } of Object.values(project.reflections)) {
      for (const tag of comment?.blockTags ?? []) {
        if (tag.tag !== "@throws" || tag.typeAnnotation === undefined) continue;
        const name = tag.typeAnnotation.replace(/[{}\s]/g, "");
        const target = classes.get(name);
        if (target === undefined) app.logger.warn(`@throws {${name}}: there is no such class`);
        tag.content.unshift({ kind: "inline-tag", tag: "@link", text: name, target }, { kind: "text", text: " " });
        tag.typeAnnotation = undefined; // a comment may belong to several reflections
      }
    }
  });
}
