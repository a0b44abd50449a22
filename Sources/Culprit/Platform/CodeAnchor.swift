/// A function whose address marks the code of its source file.
typealias CodeAnchor = @convention(c) () -> Int32
