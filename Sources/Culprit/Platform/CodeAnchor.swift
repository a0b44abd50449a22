/// A function whose address marks the code of its source file, to lock it into memory (``PageLocking``).
typealias CodeAnchor = @convention(c) () -> Int32
