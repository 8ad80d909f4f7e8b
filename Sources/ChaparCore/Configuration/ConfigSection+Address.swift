extension ConfigSection {
    /// Reads the address of an HTTP proxy, which may have a user and a password; nil when the key is absent or wrong.
    package func proxy(_ key: String) -> (endpoint: HTTPEndpoint, credentials: HTTPProxyCredentials?)? {
        record(key, "address")
        guard let text = string(key) else { return nil }
        guard let proxy = HTTPProxyCredentials.divide(text) else {
            let isSOCKS = text.lowercased().hasPrefix("socks")
            reject(
                key,
                isSOCKS
                    ? "is a SOCKS proxy; only HTTP proxies (CONNECT) are supported"
                    : "is not the address of an HTTP proxy",
                fix:
                    "Write http://host:port; a user and a password stand before the host as user:password@, with %3A for a colon."
            )
            return nil
        }
        return proxy
    }

    /// Reads an address that may have a path; `http` only on this machine.
    ///
    /// Nil when the key is absent or its value is wrong.
    public func baseURL(_ key: String) -> HTTPBaseURL? {
        record(key, "address, may have a path")
        guard let text = string(key) else { return nil }
        guard let address = HTTPBaseURL(url: text) else {
            reject(
                key,
                "is not an address",
                fix: "Write https://host/path, without user, password, query or fragment."
            )
            return nil
        }
        guard address.endpoint.scheme == .https || address.endpoint.isLoopback else {
            reject(key, "\"\(text)\" is not encrypted", fix: "Write https://; http:// is for this machine only.")
            return nil
        }
        return address
    }
}
