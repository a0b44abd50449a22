import CulpritStallRecord

/// Algorithms of libraries that call functions of their callers back again and again: to compare, to convert, to visit.
///
/// What is spent in such a function belongs to who called the algorithm. Frameworks, which call a function back to hand work over,
/// are not among them.
enum RepeatedCalls {
  /// Whether the function of `frame` is such an algorithm.
  static func areMade(by frame: ResolvedFrame) -> Bool {
    guard let path = FunctionPath(frame) else { return false }
    // These have one value at most.
    if path.types.contains("Optional") || path.types.contains("Result") { return false }
    if names.contains(path.name) || prefixes.contains(where: path.name.hasPrefix) { return true }
    if let symbol = frame.rawName, c.contains(symbol.drop { $0 == "_" }) { return true }
    switch WorkKinds.kind(of: frame) {
    case .sorting, .json, .codable, .collections: return true
    default: return false
    }
  }

  private static let names: Set<String> = [
    "map", "compactMap", "flatMap", "mapValues", "compactMapValues", "filter", "reduce", "forEach", "contains", "first",
    "firstIndex", "last", "lastIndex", "min", "max", "allSatisfy", "elementsEqual", "lexicographicallyPrecedes",
    "starts",
    "removeAll", "drop", "prefix", "split", "partition", "sort", "sorted", "merge", "merging", "concurrentPerform",
    // C++ and Rust.
    "for_each", "transform", "accumulate", "find_if", "find_if_not", "count_if", "any_of", "all_of", "none_of",
    "remove_if",
    "copy_if", "generate", "lower_bound", "upper_bound", "equal_range", "binary_search", "max_element", "min_element",
    "nth_element", "unique", "includes", "adjacent_find", "fold", "try_fold", "retain", "sort_by", "sort_unstable_by",
  ]

  private static let prefixes = ["enumerate", "_insertionSort", "_stableSort", "_mergeRuns"]

  /// The C library's and libdispatch's, without underscores.
  private static let c: Set<Substring> = [
    "qsort", "qsort_r", "msort_with_tmp", "bsearch", "tsearch", "tfind", "twalk", "lfind", "lsearch", "nftw", "ftw",
    "scandir", "glob", "dispatch_apply", "dispatch_apply_f", "dl_iterate_phdr",
  ]
}
