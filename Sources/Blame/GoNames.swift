import CulpritStallRecord

/// Names of Go's functions, "net/http.(*conn).serve": the path of the package, and the function behind the first point after that.
enum GoNames {
  /// Whether `frame` is of Go's runtime, or of its standard library.
  static func isStandard(_ frame: ResolvedFrame) -> Bool {
    guard let name = frame.rawName, let package = package(of: name) else { return false }
    guard packages.contains(package.prefix { $0 != "/" }) else { return false }
    // Copies that C compilers make of functions have a point in their names too: "sort.constprop.0".
    guard let file = frame.location?.file else { return package == "runtime" || package.contains("/") }
    return file.hasSuffix(".go") || package == "runtime"
  }

  /// The path of the package that the function called `name` is in; `nil` where that is no name of Go's.
  private static func package(of name: String) -> Substring? {
    let begin = name.lastIndex(of: "/") ?? name.startIndex
    guard let point = name[begin...].firstIndex(of: "."), point != name.startIndex else { return nil }
    return name[..<point]
  }

  /// The first parts of the paths of the standard library's packages.
  private static let packages: Set<Substring> = [
    "archive", "bufio", "bytes", "cmp", "compress", "container", "context", "crypto", "database", "debug", "embed",
    "encoding", "errors", "expvar", "flag", "fmt", "go", "hash", "html", "image", "index", "internal", "io", "iter",
    "log",
    "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort", "strconv",
    "strings", "structs", "sync", "syscall", "testing", "text", "time", "unicode", "unique", "unsafe", "vendor", "weak",
  ]
}
