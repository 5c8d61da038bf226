// The dylib's root. It has no code: it is a target of its own so that the linker's export list applies to the dylib
// alone, and not to the test programs that link the same modules.
import GatedDelta
