package import ChaparCore

extension ConfigSection {
    /// Reads the common keys, with a `base_url` that may have a path.
    package func connection(
        default fallback: HTTPBaseURL,
        connections: Int,
        timeout: Duration
    ) -> (CommonBackendOptions, HTTPBaseURL) {
        let base = baseURL("base_url") ?? fallback
        return (CommonBackendOptions(self, readsBase: false, connections: connections, timeout: timeout), base)
    }
}
