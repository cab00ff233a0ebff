//! One direction of a connection: where its bytes come from, which it holds, and where they go.
