bunx gated-delta doctor
