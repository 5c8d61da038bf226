bunx gated-delta generate "$MODEL" "Why is the sky blue?" --max-tokens 40
