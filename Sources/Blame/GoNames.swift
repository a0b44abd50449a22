import CulpritStallRecord

/// Parses the names of Go functions, such as "net/http.(*conn).serve": the package path, a dot, and the function.
enum GoNames {
  static func isStandard(_ frame: ResolvedFrame) -> Bool {
    guard let name = frame.rawName, let package = package(of: name) else { return false }
    guard packages.contains(package.prefix { $0 != "/" }) else { return false }
    // Function copies made by C compilers also contain a dot: "sort.constprop.0".
    guard let file = frame.location?.file else { return package == "runtime" || package.contains("/") }
    return file.hasSuffix(".go") || package == "runtime"
  }

  private static func package(of name: String) -> Substring? {
    let begin = name.lastIndex(of: "/") ?? name.startIndex
    guard let point = name[begin...].firstIndex(of: "."), point != name.startIndex else { return nil }
    return name[..<point]
  }

  private static let packages = words(
    """
    archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go
    hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices sort
    strconv strings structs sync syscall testing text time unicode unique unsafe vendor weak
    """
  )
}
