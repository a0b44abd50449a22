final class NameCache {
  struct Name {
    var raw: String
    var meaning: DemangledName
  }

  /// Names by their constant address in the mapped file.
  private var names: [UnsafeRawPointer: Name] = [:]
  private(set) var byteCount = 0

  func name(_ text: TextReference) -> Name {
    if let known = names[text.base] { return known }
    let raw = text.string
    let name = Name(raw: raw, meaning: demangle(raw))
    names[text.base] = name
    byteCount += 200 + raw.utf8.count + name.meaning.full.utf8.count + name.meaning.short.utf8.count
    return name
  }

  func forget() {
    names = [:]
    byteCount = 0
  }
}
