// `import Culprit` is enough for every type of a report, also with MemberImportVisibility, where the module of a member must
// be imported.
@_exported import CulpritReports
