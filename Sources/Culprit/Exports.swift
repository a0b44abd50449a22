// `import Culprit` is enough for all that reports are made of, also where every member must be of a module that is imported
// (MemberImportVisibility).
@_exported import CulpritReports
