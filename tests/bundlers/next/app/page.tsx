"use client";
import { useEffect, useState } from "react";
import { decode } from "../decode";

export default function Page() {
  const [text, setText] = useState("");
  useEffect(() => void decode("/bytes.detok", setText), []);
  return <output>{text}</output>;
}
