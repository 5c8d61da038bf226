npx gated-delta doctor
