/// A location in source code.
package struct SourceLocation: Hashable, Sendable, CustomStringConvertible {
  /// The path of the file as recorded by the compiler.
  package var file: String
  /// The line, from 1.
  package var line: Int
  /// The column, from 1; 0 if unknown.
  package var column: Int

  /// Creates a location.
  package init(file: String, line: Int, column: Int = 0) {
    self.file = file
    self.line = line
    self.column = column
  }

  /// The location in the format of compiler messages, without the column.
  package var description: String { "\(file):\(line)" }
}

/// The reason why an address has no name.
package enum MissingNameReason: Hashable, Sendable {
  /// No module was mapped at the address.
  case notMapped
  /// The module is not a file, for example the vDSO.
  case noFile
  /// The file could not be opened or read, for the given reason.
  case unreadableFile(String)
  /// The file is not the one that ran: its build ID differs.
  case changedFile(expected: String, found: String)
  /// The file was deleted or replaced, and has no build ID by which its replacement could be verified.
  case unverifiable
  /// The file has no symbol table.
  case noSymbols
  /// The file has symbols, but none contains the address.
  case noSymbolHere

  /// Whether the reason lies in the correct file, and not in its absence.
  package var isOfFile: Bool { self == .noSymbols || self == .noSymbolHere }

  /// The reason in words.
  package var explanation: String {
    switch self {
    case .notMapped: "no module was mapped there"
    case .noFile: "the module is not a file"
    case .unreadableFile(let why): why
    case .changedFile(let expected, let found):
      "the file has changed since: its build-id is \(found), the one that ran had \(expected)"
    case .unverifiable: "the file was deleted, and without a build-id its replacement cannot be verified"
    case .noSymbols: "the file has no symbols"
    case .noSymbolHere: "the file has no symbol for this address"
    }
  }
}

/// The origin of code according to the debug information.
package enum CodeOrigin: Hashable, Sendable {
  /// Unknown: the module has no debug information or no readable file.
  case unknown
  /// The module's debug information does not cover this code, which was compiled elsewhere and linked from an archive.
  case undescribed
  /// The code is part of this compilation unit.
  case unit(CompilationUnit)
}

/// A compilation unit: a source file or a Swift module.
package struct CompilationUnit: Hashable, Sendable {
  /// The working directory of the compiler (DW_AT_comp_dir); empty if unknown.
  package var directory: String
  /// The source file (DW_AT_name), absolute or relative to ``directory``.
  package var file: String
  /// The Swift module of the unit; `nil` if unknown or not Swift.
  package var swiftModule: String?

  /// Creates a compilation unit.
  package init(directory: String, file: String, swiftModule: String? = nil) {
    self.directory = directory
    self.file = file
    self.swiftModule = swiftModule
  }

  /// ``file`` in ``directory``.
  package var path: String { file.hasPrefix("/") || directory.isEmpty ? file : directory + "/" + file }
}

/// The kind of code at an address.
package enum FunctionKind: Hashable, Sendable {
  /// Code from source, or a copy or part of it.
  case function
  /// A thunk that leads to a function from source, such as a protocol witness or a closure's entry. The function's code
  /// is often inlined into it.
  case thunk
  /// Code generated for a type: copying and destroying its values, its metadata.
  case glue
}

/// The function meant by a call whose code is shared by several functions.
package struct CalledFunction: Hashable, Sendable {
  /// The readable name.
  package var function: String
  /// The full demangled name.
  package var fullName: String
  /// The symbol name.
  package var rawName: String
  /// The Swift module that defines the function.
  package var swiftModule: String?
  /// The full name of the source function.
  package var sourceFunction: String?
  /// The first address of the code.
  package var start: FileAddress

  /// Creates the function whose code starts at `start`.
  package init(
    function: String,
    fullName: String,
    rawName: String,
    swiftModule: String?,
    sourceFunction: String?,
    start: FileAddress
  ) {
    self.function = function
    self.fullName = fullName
    self.rawName = rawName
    self.swiftModule = swiftModule
    self.sourceFunction = sourceFunction
    self.start = start
  }
}

extension [ResolvedFrame] {
  /// Returns the frames of a stack, innermost first, in which merged functions have the names implied by their callers.
  package func namingMergedFunctions() -> [ResolvedFrame] {
    guard contains(where: \.isMerged) else { return self }
    var frames = self
    for place in indices.dropLast() where frames[place].isMerged && !frames[place].isInlined {
      let isCallerHere = frames[place + 1].module == frames[place].module
      guard let called = frames[place + 1].called, called.start == frames[place].start, isCallerHere else {
        // A thunk that leads to merged functions is itself shared by several functions.
        if isCallerHere, frames[place + 1].kind == .thunk, frames[place + 1].location == nil {
          frames[place + 1].isMerged = true
        }
        continue
      }
      frames[place].function = called.function
      frames[place].fullName = called.fullName
      frames[place].rawName = called.rawName
      frames[place].swiftModule = called.swiftModule
      frames[place].sourceFunction = called.sourceFunction
      frames[place].isMerged = false
    }
    return frames
  }
}

/// The symbolized form of an address on a stack.
package struct ResolvedFrame: Hashable, Sendable {
  /// The readable name: demangled and shortened. `nil` if there is none.
  package var function: String?
  /// The full demangled name.
  package var fullName: String?
  /// The symbol name.
  package var rawName: String?
  /// The Swift module that defines the function. Generic code of a module is often compiled into another module's file.
  package var swiftModule: String?
  /// The full name of the source function of which this is a variant or part without its own source name: a
  /// specialization, a part of an async function, an implicit closure. Equal for all of them; `nil` if unknown.
  package var sourceFunction: String?
  /// The kind of the code.
  package var kind: FunctionKind
  /// Whether the compiler merged several similar functions. The name belongs to one of them, but any might have been
  /// called.
  package var isMerged: Bool
  /// The function called here, if its code is shared by several functions; `nil` if this does not apply or the function
  /// is unknown.
  package var called: CalledFunction?
  /// The path of the module; empty if no module contains the address.
  package var module: String
  /// The first address of the function in the module's file; the address itself if the function is unknown.
  package var start: FileAddress?
  /// The address, in the module's file or in the process.
  package var address: CodeAddress
  /// The source location; `nil` if unknown.
  package var location: SourceLocation?
  /// The origin of the code. Generic and inlined code of a module is compiled into another module's unit.
  package var origin: CodeOrigin
  /// Whether the compiler inlined the function into its caller, the next frame.
  package var isInlined: Bool
  /// The reason for a missing name; `nil` if there is a name.
  package var missing: MissingNameReason?
  /// Whether the function is not on the thread's stack and resumes here after an `await`.
  package var isAwaiting = false

  /// Creates a frame at `address` of `module`.
  package init(
    function: String?,
    fullName: String? = nil,
    rawName: String? = nil,
    swiftModule: String? = nil,
    sourceFunction: String? = nil,
    kind: FunctionKind = .function,
    isMerged: Bool = false,
    module: String,
    start: FileAddress? = nil,
    address: CodeAddress,
    location: SourceLocation? = nil,
    origin: CodeOrigin = .unknown,
    isInlined: Bool = false,
    missing: MissingNameReason? = nil
  ) {
    self.function = function
    self.fullName = fullName
    self.rawName = rawName
    self.swiftModule = swiftModule
    self.sourceFunction = sourceFunction
    self.kind = kind
    self.isMerged = isMerged
    self.module = module
    self.start = start
    self.address = address
    self.location = location
    self.origin = origin
    self.isInlined = isInlined
    self.missing = missing
  }

  /// The last component of the module's path.
  package var moduleName: String {
    guard let slash = module.utf8.lastIndex(of: UInt8(ascii: "/")) else { return module }
    return String(module[module.index(after: slash)...])
  }

  /// The name to print, at most 100 characters: the function; or else the module and an offset or address; or else the
  /// address. Merged functions are marked.
  package var displayName: String {
    if let function {
      let suffix = isMerged ? FunctionName.mergedSuffix : ""
      return FunctionName.fitted(function, to: FunctionName.charactersMax - suffix.count) + suffix
    }
    let place = "0x" + String(start?.value ?? address.value, radix: 16)
    return module.isEmpty ? place : "\(moduleName)+\(place)"
  }
}
