/** Chat templates that work as released ones do. */

/** Roles and contents. */
export const plainTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;

/**
 * Thoughts are kept in the answers after the last question, and removed from earlier ones; calls are JSON; the results of tools are
 * parts of one user message. A prompt ends inside thoughts, unless \`enable_thinking\` is false.
 */
export const thinkingTemplate = `{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- set ns = namespace(question=-1) %}
{%- for m in messages %}{% if m.role == "user" %}{% set ns.question = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
  {%- if m.role == "assistant" %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if loop.index0 > ns.question and m.reasoning_content is string %}{{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}{% endif %}
    {{- m.content }}
    {%- for call in m.tool_calls or [] %}
      {%- if m.content or not loop.first %}{{- '\\n' }}{% endif %}
      {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + call.function.arguments | tojson + '}\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif m.role == "tool" %}
    {%- if loop.previtem.role != "tool" %}{{- '<|im_start|>user' }}{% endif %}
    {{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
    {%- if loop.last or loop.nextitem.role != "tool" %}{{- '<|im_end|>\\n' }}{% endif %}
  {%- else %}
    {{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
  {{- '<|im_start|>assistant\\n' }}
  {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% else %}{{- '<think>\\n' }}{% endif %}
{%- endif %}`;

/** The same, but it refuses a system message after the first message, as most released templates do. */
export const strictTemplate = `{%- for m in messages %}{% if m.role == "system" and not loop.first %}{{ raise_exception("System message must be at the beginning.") }}{% endif %}{% endfor %}${thinkingTemplate}`;
