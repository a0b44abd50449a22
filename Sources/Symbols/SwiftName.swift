import CulpritStallRecord

/// A demangled Swift name, shortened for readers.
///
///     Shop.Catalog.rebuild(for: Swift.String, limit: Swift.Int) throws -> [Swift.String]
///     Catalog.rebuild(for:limit:)                                          module Shop
///
///     closure #1 (Swift.Int) -> () in Shop.Catalog.rebuild(for: Swift.String) -> ()
///     closure #1 in Catalog.rebuild(for:)
///
/// The output of the runtime's demangler is parsed by its printing rules. The context of an entity precedes it with a
/// dot ("Shop.Catalog.rebuild(…)"). If the entity or its context is more than a name, the context follows after " in ":
/// for closures, local functions and types, and everything inside them.
struct SwiftName {
  /// The name without types, generic arguments and module.
  private(set) var short: String
  private(set) var module: String?
  /// Whether several functions share the code. The name belongs to one of them.
  private(set) var isMerged = false
  private(set) var kind = FunctionKind.function
  /// The full name of the function in source code. The code can be an unnamed variant or part.
  private(set) var function: String

  /// Shortens `demangled`. For the initializer of a global or static variable, `owner` is the variable in the
  /// demangler's format.
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
