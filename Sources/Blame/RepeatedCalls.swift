import CulpritStallRecord

/// Recognizes algorithms of toolchain libraries that repeatedly call a function of their caller: to compare, convert or
/// visit elements.
enum RepeatedCalls {
  static func areMade(by frame: ResolvedFrame) -> Bool {
    guard let symbol = frame.rawName else { return false }
    if symbol.hasPrefix("$s") || symbol.hasPrefix("$S") { return isSwift(frame) }
    if symbol.hasPrefix("_Z") || symbol.hasPrefix("_R") { return isCxxOrRust(frame) }
    return c.contains(symbol.drop { $0 == "_" })
  }

  private static func isSwift(_ frame: ResolvedFrame) -> Bool {
    guard let module = frame.swiftModule, SystemNames.swiftModules.contains(module), module != "_Concurrency",
      let path = FunctionPath(frame)
    else { return false }
    // An Optional or Result contains at most one value.
    if path.types.contains("Optional") || path.types.contains("Result") { return false }
    if swift.contains(path.name) || path.name.hasPrefix("enumerate") { return true }
    switch WorkKinds.kind(of: frame) {
    case .sorting, .json, .codable, .collections: return true
    default: return false
    }
  }

  private static func isCxxOrRust(_ frame: ResolvedFrame) -> Bool {
    guard let path = FunctionPath(frame), let outermost = path.types.first,
      ["std", "__gnu_cxx", "core", "alloc"].contains(outermost)
    else { return false }
    if cxx.contains(path.name) { return true }
    switch WorkKinds.kind(of: frame) {
    case .sorting, .collections: return true
    default: return false
    }
  }

  private static let swift = words(
    """
    map compactMap flatMap mapValues compactMapValues filter reduce forEach contains first firstIndex last lastIndex min
    max allSatisfy elementsEqual lexicographicallyPrecedes starts removeAll drop prefix split partition sort sorted
    concurrentPerform
    """
  )

  private static let cxx = words(
    """
    for_each transform accumulate find_if find_if_not count_if any_of all_of none_of remove_if copy_if generate
    lower_bound upper_bound equal_range binary_search max_element min_element nth_element unique includes adjacent_find
    map filter fold try_fold retain sort_by sort_unstable_by
    """
  )

  private static let c = words(
    """
    qsort qsort_r msort_with_tmp sort bsearch tsearch tfind twalk lfind lsearch nftw ftw scandir glob dispatch_apply
    dispatch_apply_f
    """
  )
}
