import Glibc

/// What the kernel calls the host.
enum HostName {
  /// That of this process: in a container that of the container. Empty where there is none.
  static func ofThisProcess() -> String {
    // One more than the kernel's longest (uname(2)), so that a zero ends it.
    var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 2)
    guard gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
