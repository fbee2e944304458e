//! The dispatcher: claims what is due, checks again, sends, settles.
