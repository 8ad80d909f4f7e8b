import Foundation

/// The sign that the program runs in a container, whose files end with it and whose ports are forwarded by others.
struct Container {
    /// The variable or file that shows it; nil outside a container.
    let sign: String?

    /// Looks for the variables and files that container engines leave.
    ///
    /// `CHAPAR_CONTAINER` overrides them: `1` or `0`.
    init(
        environment: [String: String] = ProcessInfo.processInfo.environment,
        hasFile: (String) -> Bool = FileManager.default.fileExists
    ) {
        switch environment["CHAPAR_CONTAINER"] {
        case "0"?: sign = nil
        case "1"?: sign = "CHAPAR_CONTAINER"
        default:
            sign =
                ["KUBERNETES_SERVICE_HOST", "container"].first { environment[$0].map { !$0.isEmpty } ?? false }
                ?? ["/.dockerenv", "/run/.containerenv"].first(where: hasFile)
        }
    }
}
