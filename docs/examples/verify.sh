bunx gated-delta verify "$MODEL"
