npx gated-delta verify "$MODEL"
