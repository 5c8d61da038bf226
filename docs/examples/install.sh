bun add gated-delta
