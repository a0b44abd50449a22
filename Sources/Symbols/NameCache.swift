/// What names of a file mean; each is demangled once.
final class NameCache {
  /// A name as it is in the file, and what it means.
  struct Name {
    var raw: String
    var meaning: DemangledName
  }

  /// By the place of the name in the file, which stays where it is.
  private var names: [UnsafeRawPointer: Name] = [:]
  /// How much memory the names take, about.
  private(set) var byteCount = 0

  /// The name at `text` and its meaning.
  func name(_ text: TextReference) -> Name {
    if let known = names[text.base] { return known }
    let raw = text.string
    let name = Name(raw: raw, meaning: demangle(raw))
    names[text.base] = name
    byteCount += 200 + raw.utf8.count + name.meaning.full.utf8.count + name.meaning.short.utf8.count
    return name
  }

  /// Forgets all names.
  func forget() {
    names = [:]
    byteCount = 0
  }
}
