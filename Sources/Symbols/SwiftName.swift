import CulpritStallRecord

/// A demangled Swift name, shortened for readers.
///
///     Shop.Catalog.rebuild(for: Swift.String, limit: Swift.Int) throws -> [Swift.String]
///     Catalog.rebuild(for:limit:)                                          module Shop
///
///     closure #1 (Swift.Int) -> () in Shop.Catalog.rebuild(for: Swift.String) -> ()
///     closure #1 in Catalog.rebuild(for:)
///
/// What the runtime's demangler prints is read by the rules that it prints by: an entity is preceded by its context and a
/// point ("Shop.Catalog.rebuild(…)"), or followed by " in " and its context where either is more than a name: closures,
/// local functions and types, and everything in them.
struct SwiftName {
  /// The name without types, generic arguments and module.
  private(set) var short: String
  /// The module that defines the function; `nil` for glue that belongs to none.
  private(set) var module: String?
  /// Whether the code is that of several functions, of which the name is one's.
  private(set) var isMerged = false
  /// What the code is.
  private(set) var kind = FunctionKind.function
  /// What the function that somebody has written is called in full, where the code is a variant or a part of it that has no
  /// name in the source: a specialisation, a piece of an async function, an implicit closure.
  private(set) var function: String

  /// The meaning of `demangled`.
  ///
  /// - Parameters:
  ///   - demangled: What the demangler has printed.
  ///   - owner: For the initialisation of a global or static variable that variable, as the demangler prints it.
  init(demangled: String, owner: String? = nil) {
    let text = NameText(demangled)
    var reader = SwiftNameReader(text)
    let range = reader.withoutVariants(text.trimmed(text.all))
    var name = reader.name(range)
    if text.has("one-time initialization function for ", at: range.lowerBound, in: range), let owner {
      let variable = NameText(owner)
      name = SwiftNameReader(variable).initialization(of: variable.all)
    }
    short = name.short
    module = name.module
    isMerged = reader.isMerged
    kind = name.isGlue ? .glue : reader.isThunk || name.isThunk ? .thunk : .function
    function = text[(name.start ?? range.lowerBound)..<range.upperBound]
  }
}
