/// Suffixes by which compilers distinguish copies and parts of a function: `find.cold`, `find.part.0.constprop.1`,
/// `$s…M.resume.0`, `find.llvm.1234`. They do not occur in source code.
enum CopySuffix {
  /// Endings of GCC and LLVM.
  private static let words: Set<Substring> = [
    "cold", "hot", "unlikely", "part", "isra", "constprop", "lto_priv", "localalias", "llvm", "resume", "cleanup",
    "destroy", "warm", "split", "specialized", "__uniq", "__part",
  ]

  static func removed(from name: String) -> Substring {
    var rest = Substring(name)
    while let dot = rest.lastIndex(of: "."), dot != rest.startIndex {
      var word = rest[rest.index(after: dot)...]
      var head = rest[..<dot]
      // A number can follow the word: ".part.0".
      if !word.isEmpty, word.allSatisfy(\.isHexDigit), word.contains(where: \.isNumber),
        let earlier = head.lastIndex(of: "."), earlier != head.startIndex
      {
        word = head[head.index(after: earlier)...]
        head = head[..<earlier]
      }
      guard words.contains(word) else { break }
      rest = head
    }
    return rest
  }
}
