import Glibc

enum HostName {
  /// Returns the name of the host or container; empty if unknown.
  static func ofThisProcess() -> String {
    // One byte more than the longest name (uname(2)), so the name is always terminated.
    var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 2)
    guard gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
